;;; agent-q-execute-test.el --- Tests of running tools from Emacs Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Handlers of all kinds, batches, and what can go wrong in them.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defun agent-q-execute-test--echo (&rest keys)
  "Return a tool that returns its argument, defined with KEYS."
  (apply #'agent-q-test-tool "t_echo" (lambda (arguments) (gethash "text" arguments))
         keys))

;;;; Batches

(ert-deftest agent-q-execute-keeps-ids-and-order ()
  (agent-q-test-with-tools ((agent-q-execute-test--echo)
                            (agent-q-test-tool "t_fail" (lambda (_) (error "No luck"))))
    (let ((results (agent-q-execute-tool-calls-sync
                    '((:id "a" :name "t_echo" :arguments (:text "one"))
                      (:id "b" :name "nonexistent" :arguments ())
                      (:id "a" :name "t_fail" :arguments ())
                      (:id 7 :name "t_echo" :arguments "{\"text\":\"two\"}")
                      (:name "t-echo" :arguments (("text" . "three")))))))
      (should (equal (mapcar #'agent-q-tool-result-id results)
                     '("a" "b" "a" "7" "call_5")))
      (should (equal (mapcar #'agent-q-tool-result-success results)
                     '(t nil nil t t)))
      (should (equal (mapcar #'agent-q-tool-result-content results)
                     '("one" "Unknown tool: nonexistent" "Tool error: No luck"
                       "two" "three"))))
    (should-not (agent-q-execute-tool-calls-sync nil))))

(ert-deftest agent-q-execute-suggests-the-tool-that-was-meant ()
  (should (equal (agent-q-test-error "describe_symbl" nil)
                 "Unknown tool: describe_symbl. Did you mean describe_symbol?")))

(ert-deftest agent-q-execute-takes-arguments-in-all-shapes ()
  (agent-q-test-with-tools ((agent-q-test-tool
                             "t_keys" (lambda (arguments)
                                        (cons (hash-table-test arguments)
                                              (hash-table-keys arguments)))))
    (let ((table (make-hash-table :test #'equal)))
      (puthash "text" "x" table)
      (dolist (arguments (list table '(:text "x") '((text . "x")) '(("text" . "x"))
                               "{\"text\": \"x\"}"))
        (should (equal (agent-q-test-content "t_keys" arguments) "(equal \"text\")"))))
    ;; What is nil is left out, as is null.
    (should (equal (agent-q-test-content "t_keys" '(:text nil)) "(equal)"))
    (should (equal (agent-q-test-content "t_keys" '(:text :null)) "(equal)"))
    (should (string-match-p "not a valid JSON object" (agent-q-test-error "t_keys" "{\"text\": ")))
    (should (string-match-p "must be an object" (agent-q-test-error "t_keys" [1])))
    (should (string-match-p "text: Field must be a string"
                            (agent-q-test-error "t_keys" '(:text 1))))
    (dolist (arguments '(((:text . "x")) ((:text . "x") ("text" . "y"))))
      (should (equal (agent-q-test-content "t_keys" arguments) "(equal \"text\")")))))

(ert-deftest agent-q-execute-unusable-calls-fail-alone ()
  (agent-q-test-with-tools ((agent-q-execute-test--echo))
    (let* ((circle (vector 1))
           (calls `((:id "a" :name "t_echo" :arguments (:text "one"))
                    (:id "b" :name "t_echo" :arguments (:text ,(current-buffer)))
                    (:id "c" :name nil :arguments (:text "x"))
                    (:id "d")
                    (:id "e" :name "t_echo" :arguments (:text ,(expt 2 64)))
                    (:id "f" :name "t_echo" :arguments (:text 1.0e+INF))
                    (:id "g" :name "t_echo" :arguments (:text 0.0e+NaN))
                    (:id "h" :name "t_echo" :arguments ,(current-buffer))
                    (:id "i" :name "t_echo" :arguments ,circle)
                    7
                    (:id "k" :name "t_echo" :arguments ((,(string 0) . 1)))
                    (:id "l" :name ,(intern (string ?t #x3fff80 #xd800)))
                    "{\"id\":"
                    (:name "t_echo" :arguments (:text "two"))))
           (results 'none))
      (aset circle 0 circle)
      (dolist (them (list (agent-q-execute-tool-calls-sync calls agent-q-test-patience)
                          (progn
                            (agent-q-execute-tool-calls
                             calls (lambda (them) (setq results them)))
                            (should (eq results 'none))
                            (agent-q-test-until (listp results))
                            results)))
        (should (equal (mapcar #'agent-q-tool-result-id them)
                       '("a" "b" "c" "d" "e" "f" "g" "h" "i" "call_10" "k" "l"
                         "call_13" "call_14")))
        (should (equal (delq nil (mapcar (lambda (result)
                                           (and (agent-q-tool-result-success result)
                                                (agent-q-tool-result-content result)))
                                         them))
                       '("one" "two")))
        (cl-loop for result in them
                 for part in '(nil "can't hold a buffer" "no name" "no name"
                                   "can't hold the number 18446744073709551616"
                                   "can't hold the number" "can't hold the number"
                                   "can't hold a buffer" "" "must be an object"
                                   "" "Unknown tool" "Invalid JSON" nil)
                 when part
                 do (should (string-match-p part (agent-q-tool-result-error result)))
                 (should (equal (agent-q-tool-result-error result)
                                (agent-q-tool-result-content result)))
                 (should (numberp (gethash "execution_time_ms"
                                           (agent-q-tool-result-metadata result)))))))
    ;; A batch of nothing else comes to its end too.
    (should (equal (mapcar #'agent-q-tool-result-id
                           (agent-q-execute-tool-calls-sync '((:id "x")) agent-q-test-patience))
                   '("x")))))

(ert-deftest agent-q-execute-says-what-is-no-list-of-calls ()
  (dolist (calls '(5 (:name "t_echo") ((:name "t_echo") . 1) "[]"))
    (should (string-match-p "has to be a list of calls"
                            (cadr (should-error (agent-q-execute-tool-calls-sync calls)
                                                :type 'agent-q-error))))
    (should-error (agent-q-execute-tool-calls calls #'ignore) :type 'agent-q-error))
  (should-error (agent-q-execute-tool-calls nil nil) :type 'agent-q-error)
  (should-error (agent-q-execute-tool-calls-sync nil "1") :type 'agent-q-error)
  (should-error (agent-q-cancel-tool-calls nil) :type 'agent-q-error))

(ert-deftest agent-q-execute-arguments-are-read-whatever-is-in-them ()
  (let ((seen nil))
    (agent-q-test-with-tools ((agent-q-test-tool
                               "t_text" (lambda (arguments) (gethash "text" arguments))
                               :safety-level :dangerous)
                              (agent-q-define-tool
                               "t_number" "A tool of a test." '((:name "n" :type :number))
                               :handler (lambda (arguments)
                                          (format "%d" (gethash "n" arguments)))))
      (let* ((agent-q-approval-handler (lambda (_tool arguments)
                                         (push (gethash "text" arguments) seen)
                                         :approved))
             (nul (agent-q-test-call "t_text" "{\"text\":\"\\u0000x\"}"))
             (backslash (agent-q-test-content "t_text" "{\"text\":\"\\\\u0000x\"}"))
             (number (agent-q-test-call "t_number" "{\"n\":18446744073709551615}")))
        (should (equal backslash "\\u0000x"))
        ;; The parser in C of some versions of Emacs takes neither.
        (should (equal (agent-q-tool-result-content nul) "\0x"))
        (should (equal (agent-q-tool-result-content number) "18446744073709551615"))
        ;; Whoever decides sees them as they are.
        (should (equal seen '("\\u0000x" "\0x")))))))

(ert-deftest agent-q-execute-checks-what-is-required-and-what-is-unknown ()
  (agent-q-test-with-tools ((agent-q-execute-test--echo :required '("text")))
    (let ((message (agent-q-test-error "t_echo" nil)))
      (should (string-match-p "Missing required field: text" message))
      (should (string-match-p "required parameter 'text' missing" message)))
    (should (string-match-p "txet: no such parameter"
                            (agent-q-test-error "t_echo" '(:text "x" :txet "y"))))))

(ert-deftest agent-q-execute-tells-false-from-null-and-absent ()
  (agent-q-test-with-tools
      ((agent-q-define-tool
        "t_flags" "Tell what came."
        '((:name "a" :type :boolean) (:name "b" :type :boolean)
          (:name "c" :type :array :default (1 2)) (:name "d" :type :object))
        :handler (lambda (arguments)
                   (list (gethash "a" arguments 'absent) (gethash "b" arguments 'absent)
                         (gethash "c" arguments) (hash-table-p (gethash "d" arguments))))))
    (should (equal (agent-q-test-content "t_flags" "{\"a\":false,\"d\":{\"x\":null}}")
                   "(:false absent [1 2] t)"))
    (should (equal (agent-q-test-content "t_flags" "{\"a\":true,\"b\":null,\"c\":[]}")
                   "(t absent [] nil)"))))

(ert-deftest agent-q-execute-calls-back-with-all-results ()
  (agent-q-test-with-tools ((agent-q-execute-test--echo))
    (let ((results 'none))
      (agent-q-execute-tool-calls '((:id "a" :name "t_echo" :arguments (:text "x")))
                                  (lambda (them) (setq results them)))
      (should (eq results 'none))
      (agent-q-test-until (listp results))
      (should (equal (agent-q-tool-result-content (car results)) "x")))
    ;; A callback that fails disturbs nobody.
    (agent-q-execute-tool-calls '((:name "t_echo")) (lambda (_) (error "Callback")))
    (should (equal (agent-q-test-content "t_echo" '(:text "still there")) "still there"))))

(ert-deftest agent-q-execute-metadata-tells-time-level-and-approval ()
  (agent-q-test-with-tools ((agent-q-execute-test--echo :safety-level :cautious))
    (let ((metadata (agent-q-tool-result-metadata (agent-q-test-call "t_echo"))))
      (should (numberp (gethash "execution_time_ms" metadata)))
      (should (equal (gethash "safety_level" metadata) "cautious"))
      (should (eq (gethash "approved" metadata 'absent) 'absent))))
  (let ((metadata (agent-q-tool-result-metadata (agent-q-test-call "nonexistent"))))
    (should (eq (gethash "safety_level" metadata 'absent) 'absent))))

;;;; Handlers

(ert-deftest agent-q-execute-formats-what-handlers-return ()
  (let ((value nil))
    (agent-q-test-with-tools ((agent-q-test-tool "t_value" (lambda (_) value)))
      (pcase-dolist (`(,returned . ,content)
                     `((nil . "nil") ((1 2 3) . "(1 2 3)") ("text λ" . "text λ") (42 . "42")
                       ("" . "") (,(string ?a #x3fffe9) . "a\ufffd")))
        (setq value returned)
        (should (equal (agent-q-test-content "t_value" nil) content))))))

(ert-deftest agent-q-execute-handlers-fail-in-many-ways ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "t_signal" (lambda (_) (error "Something went wrong")))
       (agent-q-test-tool "t_wrong" (lambda (_) (car 1)))
       (agent-q-test-tool "t_quit" (lambda (_) (signal 'quit nil)))
       (agent-q-test-tool "t_throw" (lambda (_) (throw 'agent-q-execute-test 1)))
       (agent-q-test-tool "t_failure" (lambda (_) (agent-q-tool-failure "Not today")))
       (agent-q-test-tool "t_partial" (lambda (_) (agent-q-tool-failure "Cut off" '(1 2)))))
    (should (equal (agent-q-test-error "t_signal" nil) "Tool error: Something went wrong"))
    (should (string-match-p "\\`Tool error: .*listp, 1" (agent-q-test-error "t_wrong" nil)))
    ;; Without a catch, a throw is an error like others.
    (should (string-match-p "\\`Tool error: " (agent-q-test-error "t_throw" nil)))
    (should (equal (agent-q-test-error "t_failure" nil) "Not today"))
    (should (equal (agent-q-test-error "t_partial" nil) "Cut off\n(1 2)"))
    (let ((results nil))
      (agent-q-execute-tool-calls '((:name "t_quit")) (lambda (them) (setq results them)))
      (agent-q-test-until results)
      (should (equal (agent-q-tool-result-error (car results))
                     "Tool error: the user quit it")))))

(ert-deftest agent-q-execute-a-throw-past-the-pipeline-loses-no-call ()
  (agent-q-test-with-tools ((agent-q-test-tool
                             "t_throw" (lambda (_) (throw 'agent-q-execute-test 'left)))
                            (agent-q-execute-test--echo))
    (let ((results nil))
      (agent-q-execute-tool-calls '((:name "t_throw") (:name "t_echo" :arguments (:text "x")))
                                  (lambda (them) (setq results them)))
      (should (eq 'left (catch 'agent-q-execute-test
                          (agent-q-test-until results))))
      (agent-q-test-until results)
      (should (equal (mapcar #'agent-q-tool-result-content results)
                     '("Tool error: its handler exited by a throw" "x"))))))

(ert-deftest agent-q-execute-handlers-run-in-the-users-buffer-and-can-be-quit ()
  (agent-q-test-with-tools ((agent-q-test-tool
                             "t_where" (lambda (_) (list (buffer-name) inhibit-quit))))
    (save-window-excursion
      (let ((mine (get-buffer-create "agent-q-execute-test")))
        (switch-to-buffer mine)
        (should (equal (agent-q-test-content "t_where" nil)
                       "(\"agent-q-execute-test\" nil)"))
        (kill-buffer mine)))))

(ert-deftest agent-q-execute-handlers-may-wait-and-call-tools ()
  (agent-q-test-with-tools
      ((agent-q-execute-test--echo)
       (agent-q-test-tool
        "t_outer" (lambda (arguments)
                    (sit-for 0.01)
                    (concat "outer "
                            (agent-q-execute-one "t_echo" arguments)))))
    (should (equal (agent-q-test-content "t_outer" '(:text "inner")) "outer inner"))))

(ert-deftest agent-q-execute-async-handlers-answer-later-and-once ()
  (let ((callback nil))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_async"
                            (lambda (arguments answer)
                              (setq callback answer)
                              (run-at-time 0.01 nil answer
                                           (list 'later (gethash "text" arguments))))
                            :async t)
         (agent-q-test-tool "t_at_once"
                            (lambda (_ answer)
                              (funcall answer "first")
                              (funcall answer "second"))
                            :async t)
         (agent-q-test-tool "t_failing" (lambda (_ _answer) (error "At once")) :async t)
         (agent-q-test-tool "t_failure"
                            (lambda (_ answer) (funcall answer (agent-q-tool-failure "Later")))
                            :async t))
      (should (equal (agent-q-test-content "t_async" '(:text "x")) "(later \"x\")"))
      (should-not (funcall callback "too late"))
      (should (equal (agent-q-test-content "t_at_once" nil) "first"))
      (should (equal (agent-q-test-error "t_failing" nil) "Tool error: At once"))
      (should (equal (agent-q-test-error "t_failure" nil) "Later")))))

(ert-deftest agent-q-execute-handlers-that-take-too-long-have-failed ()
  (let ((agent-q-handler-timeout 0.05)
        (answer nil) (told nil))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_never"
                            (lambda (_ callback)
                              (setq answer callback)
                              (lambda () (setq told t)))
                            :async t)
         (agent-q-test-tool "t_waits"
                            (lambda (_)
                              (let ((agent-q-handler-timeout nil))
                                (agent-q-test-content "t_slow" nil))))
         (agent-q-test-tool "t_slow"
                            (lambda (_ callback) (run-at-time 0.2 nil callback "in the end"))
                            :async t))
      (should (equal (agent-q-test-error "t_never" nil)
                     "Tool error: no value within 0.05 seconds (agent-q-handler-timeout)"))
      (agent-q-test-until told)
      (should-not (funcall answer "too late"))
      (should (string-match-p "no value within" (agent-q-test-error "t_waits" nil)))
      (setq agent-q-handler-timeout nil)
      (should (equal (agent-q-test-content "t_slow" nil) "in the end")))))

(ert-deftest agent-q-execute-cancelled-calls-are-told-and-answer-no-more ()
  (let ((callback nil) (cancelled nil) (results nil))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_never" (lambda (_ answer)
                                        (setq callback answer)
                                        (lambda () (setq cancelled t)))
                            :async t))
      (let ((batch (agent-q-execute-tool-calls '((:id "a" :name "t_never"))
                                               (lambda (them) (setq results them)))))
        (agent-q-test-until callback)
        (agent-q-cancel-tool-calls batch)
        (agent-q-test-until results)
        (should (equal (agent-q-tool-result-error (car results))
                       "The call was stopped or did not run: the program that made it cancelled it."))
        (agent-q-test-until cancelled)
        (should-not (funcall callback "too late")))
      (should (equal (plist-get (agent-q-core-status) :requests) 0))
      ;; The same when time runs out.
      (setq results (agent-q-execute-tool-calls-sync '((:id "b" :name "t_never")) 0.05))
      (should (equal (agent-q-tool-result-id (car results)) "b"))
      (should (string-match-p "no result within 0\\.[0-9]+ seconds"
                              (agent-q-tool-result-error (car results)))))))

(ert-deftest agent-q-execute-a-quit-ends-the-waiting-and-the-calls ()
  (let ((started nil))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_never"
                            (lambda (_ _answer)
                              (setq started t)
                              (run-at-time 0 nil (lambda () (setq quit-flag t)))
                              nil)
                            :async t)
         (agent-q-test-tool "t_silent" #'ignore :async t)
         (agent-q-test-tool "t_quit" (lambda (_) (signal 'quit nil))))
      (should (eq 'quit (condition-case nil
                            (agent-q-execute-tool-calls-sync '((:name "t_never")))
                          (quit 'quit))))
      (should started)
      (agent-q-test-until (equal (plist-get (agent-q-core-status) :requests) 0))
      ;; A quit that a handler got is for the program that waits as well.
      (should (eq 'quit (condition-case nil
                            (agent-q-execute-tool-calls-sync '((:name "t_quit")
                                                               (:name "t_silent")))
                          (quit 'quit))))
      (agent-q-test-until (equal (plist-get (agent-q-core-status) :requests) 0)))))

(ert-deftest agent-q-execute-the-caller-notices-nothing ()
  "What the core asks of Emacs at once leaves the caller in its buffer."
  (agent-q-test-with-tools ((agent-q-execute-test--echo))
    (with-temp-buffer
      (insert "where the program is")
      (let ((here (point)) (results nil) (buffer (current-buffer)))
        (agent-q-execute-tool-calls
         (list '(:name "list_buffers") '(:name "t_echo") (list :name "read_buffer"
                                                              :arguments
                                                              (list :buffer (buffer-name))))
         (lambda (them) (setq results them)))
        (should (eq buffer (current-buffer)))
        (should (= here (point)))
        (agent-q-test-until results)
        (should (equal '(t t t) (mapcar #'agent-q-tool-result-success results)))
        (should (string-match-p "where the program is"
                                (agent-q-tool-result-content (nth 2 results))))))))

(ert-deftest agent-q-execute-a-tool-removed-meanwhile-is-said ()
  (agent-q-test-with-tools ((agent-q-execute-test--echo))
    (let ((results nil))
      (clrhash agent-q-registry--handlers)
      (agent-q-execute-tool-calls '((:name "t_echo")) (lambda (them) (setq results them)))
      (agent-q-test-until results)
      (should (string-match-p "has been removed"
                              (agent-q-tool-result-error (car results)))))))

(provide 'agent-q-execute-test)
;;; agent-q-execute-test.el ends here
