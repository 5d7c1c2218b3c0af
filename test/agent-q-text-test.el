;;; agent-q-text-test.el --- Any text of Emacs gets to the core  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Strings of Emacs may hold what Unicode hasn't: characters beyond it, raw
;; bytes, surrogates.  No call may be lost to them, wherever they stand.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defun agent-q-text-test--echo ()
  "Return a tool that returns its argument."
  (agent-q-test-tool "t_echo" (lambda (arguments) (gethash "text" arguments))))

(defconst agent-q-text-test--hostile
  (string ?a #x110000 #x3fff7f #x3fff80 #x3fffff #xd800 #xdfff ?b)
  "Characters beyond Unicode, raw bytes and surrogates, between two letters.")

(defconst agent-q-text-test--cleaned (concat "a" (make-string 6 #xfffd) "b")
  "What the model reads of them.")

(defun agent-q-text-test--random ()
  "Return a string of random characters, among them those that Unicode hasn't."
  (apply #'string
         (cl-loop repeat (random 12)
                  collect (let ((range (nth (random 7)
                                            '((0 . #x7f) (#x80 . #xd7ff) (#xd800 . #xdfff)
                                              (#xe000 . #xffff) (#x10000 . #x10ffff)
                                              (#x110000 . #x3fff7f) (#x3fff80 . #x3fffff)))))
                            (+ (car range) (random (- (1+ (cdr range)) (car range))))))))

(defun agent-q-text-test--cleaned (text)
  "Return TEXT as the core has to read it, by a rule of its own."
  (concat (mapcar (lambda (character)
                    (if (or (<= #xd800 character #xdfff) (> character #x10ffff))
                        #xfffd
                      character))
                  text)))

(ert-deftest agent-q-text-any-text-of-a-handler-is-a-result ()
  (random "agent-q")
  (let ((text nil))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_returns" (lambda (_) text))
         (agent-q-test-tool "t_signals" (lambda (_) (error "%s" text)))
         (agent-q-test-tool "t_fails" (lambda (_) (agent-q-tool-failure text (list text))))
         (agent-q-test-tool "t_later"
                            (lambda (_ answer) (run-at-time 0 nil answer text)) :async t))
      (dotimes (_ 60)
        (setq text (agent-q-text-test--random))
        (let ((clean (agent-q-text-test--cleaned text))
              (results (agent-q-execute-tool-calls-sync
                        '((:id "1" :name "t_returns") (:id "2" :name "t_signals")
                          (:id "3" :name "t_fails") (:id "4" :name "t_later"))
                        agent-q-test-patience)))
          (ert-info ((format "%S" (append text nil)))
            (should (equal (mapcar #'agent-q-tool-result-id results) '("1" "2" "3" "4")))
            (should (equal (mapcar #'agent-q-tool-result-success results) '(t nil nil t)))
            (should (equal (agent-q-tool-result-content (nth 0 results)) clean))
            (should (equal (agent-q-tool-result-content (nth 1 results))
                           (concat "Tool error: " clean)))
            (should (string-prefix-p (concat clean "\n(\"")
                                     (agent-q-tool-result-content (nth 2 results))))
            (should (equal (agent-q-tool-result-content (nth 3 results)) clean))))))))

(ert-deftest agent-q-text-any-text-in-a-call-leaves-the-batch-whole ()
  (let* ((hostile agent-q-text-test--hostile)
         (clean agent-q-text-test--cleaned)
         (denied nil) (seen nil)
         (agent-q-approval-handler (lambda (_tool arguments)
                                     (setq denied (gethash "text" arguments))
                                     (list :denied hostile)))
         (agent-q-tool-execution-hooks
          (list (lambda (phase _tool arguments result)
                  (push (list phase (gethash "text" arguments)
                              (and result (agent-q-tool-result-content result)))
                        seen)))))
    (agent-q-test-with-tools ((agent-q-text-test--echo)
                              (agent-q-test-tool "t_asks" #'ignore :safety-level :dangerous))
      (let ((results (agent-q-execute-tool-calls-sync
                      `((:id ,hostile :name "t_echo" :arguments (:text "one"))
                        (:id "2" :name ,hostile)
                        (:id "3" :name "t_echo"
                         :arguments ,(format "{\"text\":\"%s\"}" hostile))
                        (:id "4" :name "t_echo" :arguments (:text ,hostile))
                        (:id "5" :name "t_echo" :arguments (,(intern (concat ":" hostile)) 1))
                        (:id "6" :name "t_asks" :arguments (:text ,hostile))
                        (:id "7" :name ,(intern hostile))
                        (:id "8" :name "t_echo" :arguments (:text "two")))
                      agent-q-test-patience)))
        (should (equal (mapcar #'agent-q-tool-result-id results)
                       (list clean "2" "3" "4" "5" "6" "7" "8")))
        (cl-loop for result in results
                 for expected in (list "one" (concat "Unknown tool: " clean) clean clean
                                       (concat clean ": no such parameter; it takes text")
                                       (concat "User denied tool execution: " clean)
                                       (concat "Unknown tool: " clean) "two")
                 do (should (equal (agent-q-tool-result-content result) expected)))
        (should (equal denied clean))
        ;; The calls run side by side.
        (pcase-dolist (`(,phase . ,expected)
                       `((:before ("one" nil) (,clean nil) (,clean nil) ("two" nil))
                         (:after ("one" "one") (,clean ,clean) (,clean ,clean) ("two" "two"))))
          (should (equal (reverse (alist-get phase (seq-group-by #'car seen)))
                         (mapcar (lambda (entry) (cons phase entry)) expected))))))))

(ert-deftest agent-q-text-any-name-of-a-buffer-is-listed ()
  (let ((buffer (get-buffer-create (concat "agent-q-" agent-q-text-test--hostile)))
        (name (concat "agent-q-" agent-q-text-test--cleaned)))
    (unwind-protect
        (save-window-excursion
          (switch-to-buffer buffer)
          (lisp-mode)
          (insert "(defun f () \"" agent-q-text-test--hostile "\")")
          (should (string-match-p (regexp-quote name) (agent-q-test-content "list_buffers" nil)))
          (let ((outline (agent-q-test-content "buffer_outline" nil)))
            (should (string-match-p (regexp-quote name) outline))
            (should (string-match-p (regexp-quote agent-q-text-test--cleaned) outline)))
          (let ((read (agent-q-test-content "read_buffer" nil)))
            (should (string-match-p (regexp-quote (concat "Buffer " name " (lisp-mode)")) read)))
          (should (string-match-p (regexp-quote name)
                                  (agent-q-test-error "read_buffer" '(:buffer "agent-q-none")))))
      (kill-buffer buffer))))

(ert-deftest agent-q-text-what-cannot-be-told-is-a-failure ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "t_odd" (lambda (_ answer)
                                    ;; Its caller has other things to do than errors of ours.
                                    (should (funcall answer 'text)))
                          :async t))
    (cl-letf (((symbol-function 'agent-q-format-tool-result)
               (lambda (_) (error "Nothing to say"))))
      (should (equal (agent-q-test-error "t_odd" nil)
                     "Tool error: its value can't be sent (Nothing to say)"))))
  ;; What the core does not take is a failure too, and nobody waits for ever.
  (agent-q-test-with-tools ((agent-q-text-test--echo))
    (cl-letf (((symbol-function 'agent-q-format-tool-result) (lambda (_) 'no-text)))
      (should (string-match-p "can't be handed over"
                              (agent-q-test-error "t_echo" '(:text "x")))))))

(ert-deftest agent-q-text-cleaning-costs-little ()
  "To look whether there is something to clean takes no more time than to replace nothing."
  (let ((plain (make-string 16000 ?a))
        (other (apply #'concat (make-list 4000 "aäλ€"))))
    (dolist (text (list plain (string-to-multibyte plain) other))
      (should (eq text (agent-q-text-clean text)))
      (cl-flet ((seconds (function)
                  (agent-q-test-seconds (lambda () (dotimes (_ 20) (funcall function))))))
        ;; With other characters than those of ASCII, looking is most of both.
        (should (agent-q-test-once
                 (< (seconds (lambda () (agent-q-text-clean text)))
                    (* (if (eq text other) 1.5 1)
                       (seconds (lambda ()
                                  (replace-regexp-in-string agent-q-text--no-unicode "?"
                                                            text)))))))))))

(ert-deftest agent-q-text-titles-are-short-and-say-what-a-message-is-about ()
  (pcase-dolist (`(,title ,text . ,about)
                 '(("how does transfer work?" "how does transfer work?\nI tried.")
                   ("Explain this: defun transfer" "Explain this." "defun transfer, lines 3 to 9")
                   ("look at bank.lisp and tell me why withdraw fails"
                    "Please look at @file:src/bank.lisp and tell me why `withdraw` fails. Thanks!")
                   ("describe symbol car" "/describe_symbol car")
                   ("Use e.g. a hash table, ,@body or me@x.com" "Use e.g. a hash table, ,@body or me@x.com")
                   ("rewrite the whole of the banking module so…"
                    "Could you rewrite the whole of the banking module so that it is generic?")
                   ("" " \n")))
    (should (equal title (agent-q-text-title text about))))
  (should (= 48 (string-width (agent-q-text-title (make-string 90 ?x))))))

(provide 'agent-q-text-test)
;;; agent-q-text-test.el ends here
