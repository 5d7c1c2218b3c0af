;;; agent-q-names-test.el --- Tests of what is alive in a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Names, places, values and errors in the log of a chat, and where they lead.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)

(defun agent-q-names-test--thing (text)
  "Return what TEXT, from its first character on, stands for in this chat."
  (goto-char (point-min))
  (let ((case-fold-search nil))
    (search-forward text))
  (goto-char (match-beginning 0))
  (get-text-property (point) 'agent-q-live))

(defun agent-q-names-test--answer (text)
  "Show TEXT as an answer in a window, and mark what is alive in it."
  (switch-to-buffer (current-buffer))
  (agent-q-render-text text)
  (agent-q-render-finish)
  (agent-q-names--mark-all))

(agent-q-test-tools-on-each names-in-prose-lead-to-definitions ()
  "Those that the image knows; unknown words between stars are emphasized."
  (let ((file (make-temp-file (expand-file-name "names" agent-q-test-directory) nil ".lisp"
                              "(defpackage :aq-names (:use :cl) (:export aq-pay))
(in-package :aq-names)
(defun aq-pay (amount) amount)
(defmacro aq-within (&body body) `(progn ,@body))
(defvar *aq-limit* 3)\n")))
    (agent-q-test-image-load connection file)
    (save-window-excursion
      (agent-q-names-test--answer
       "`aq-pay` and `aq-names::aq-within`, `(aq-pay 3)`, `aq-nothing`, *aq-limit*, *then*, `two words`.\n\n```lisp\n(aq-missing 1)\n```\n")
      (should (equal (agent-q-test-until (agent-q-names-test--thing "aq-pay"))
                     '(name "AQ-NAMES:AQ-PAY")))
      (should (equal (agent-q-names-test--thing "aq-names::") '(name "AQ-NAMES::AQ-WITHIN")))
      (should (equal (agent-q-names-test--thing "aq-pay 3") '(name "AQ-NAMES:AQ-PAY")))
      (should (equal (agent-q-names-test--thing "*aq-limit*") '(name "AQ-NAMES::*AQ-LIMIT*")))
      (dolist (word '("aq-nothing" "*then*" "two words"))
        (should-not (agent-q-names-test--thing word)))
      (agent-q-names-test--thing "*then*")
      (should (get-text-property (point) 'invisible))
      (should (memq 'agent-q-emphasis (ensure-list (get-text-property (1+ (point)) 'face))))
      ;; What is copied is what the model wrote.
      (should (string-search "*then*, `two" (agent-q-render-last-answer)))
      (agent-q-names-test--thing "aq-within")
      (should (string-match-p "\\`macro AQ-NAMES::AQ-WITHIN; RET" (get-text-property (point) 'help-echo)))
      (agent-q-names-test--thing "aq-pay` and")
      (agent-q-test-press "RET")
      (agent-q-test-until (equal (buffer-file-name (window-buffer)) (file-truename file)))
      (should (looking-at-p "(defun aq-pay"))
      (set-window-buffer nil chat)
      (set-buffer chat)
      ;; No table of tags is asked for.
      (agent-q-names-test--thing "aq-nothing")
      (should (equal (cadr (should-error (call-interactively (key-binding (kbd "M-."))) :type 'user-error))
                     "The image knows no aq-nothing"))
      ;; Nor does the client's debugger open.
      (agent-q-names-test--thing "aq-missing")
      (should (equal (cadr (should-error (call-interactively (key-binding (kbd "C-c C-d d"))) :type 'user-error))
                     "The image knows no aq-missing"))
      ;; The cursor may stand on markup that is hidden.
      (agent-q-names-test--thing "`aq-nothing")
      (should (invisible-p (point)))
      (should (equal (cadr (should-error (call-interactively (key-binding (kbd "M-."))) :type 'user-error))
                     "The image knows no aq-nothing"))
      ;; A name that is defined later is known then.
      (agent-q-test-image-directly connection "(eval (read-from-string \"(defun cl-user::aq-nothing () 1)\"))")
      (agent-q-names-learn)
      (agent-q-names--mark-all)
      (should (agent-q-test-until (agent-q-names-test--thing "aq-nothing"))))
    (when-let ((buffer (get-file-buffer file)))
      (with-current-buffer buffer (set-buffer-modified-p nil))
      (kill-buffer buffer))))

(agent-q-test-tools-on-each names-in-the-audit-log-lead-to-definitions ()
  "What was evaluated names functions of the program."
  (let ((file (make-temp-file (expand-file-name "audited" agent-q-test-directory) nil ".lisp"
                              "(in-package :cl-user)\n(defun aq-audited (x) x)\n")))
    (agent-q-test-image-load connection file)
    (save-window-excursion
      (switch-to-buffer chat)
      (agent-q-test-tools-ask "/eval_form (aq-audited 3)")
      (agent-q-audit-log)
      (agent-q-test-find "aq-audited")
      (call-interactively (key-binding (kbd "M-.")))
      (agent-q-test-until (equal (buffer-file-name (window-buffer)) (file-truename file)))
      (kill-buffer "*agent-q audit*"))
    (kill-buffer (get-file-buffer file))))

(agent-q-test-tools-on-each names-of-values-lead-to-the-inspector ()
  "And a parked error to the user's debugger."
  (save-window-excursion
    (switch-to-buffer chat)
    (agent-q-test-tools-ask "/eval_form (list 'aq (make-hash-table))")
    (agent-q-test-find "▸ eval_form")
    (agent-q-test-press "TAB")
    (re-search-forward "\\[v")
    (backward-char)
    (should (eq 'value (car (get-text-property (point) 'agent-q-live))))
    (let ((handle (cadr (get-text-property (point) 'agent-q-live))))
      (agent-q-test-press "RET")
      (let ((inspector (agent-q-test-until
                        (seq-find (lambda (buffer) (string-match-p "inspector" (buffer-name buffer)))
                                  (buffer-list)))))
        (with-current-buffer inspector
          (agent-q-test-until (agent-q-test-shows "HASH-TABLE")))
        (kill-buffer inspector))
      (set-window-buffer nil chat)
      (set-buffer chat)
      (agent-q-test-image-directly connection "(setf agent-q-image::*handles* '())")
      (let ((said nil))
        (cl-letf (((symbol-function 'message) (lambda (&rest arguments) (setq said (apply #'format arguments)))))
          (agent-q-names-test--thing (format "[%s]" handle))
          (forward-char)
          (agent-q-test-press "RET")
          (agent-q-test-until said))
        (should (string-match-p (format "No object %s" handle) said))))
    (agent-q-test-image-eval connection "(defparameter aq-way nil)")
    (agent-q-test-tools-ask "/eval_form (setf aq-way (restart-case (error \"aq go\") (aq-leave () :left))) on_error=park")
    (agent-q-test-find "▸ eval_form (setf")
    (agent-q-test-press "TAB")
    (should (equal '(0) (last (agent-q-names-test--thing "AQ-LEAVE"))))
    (agent-q-test-press "RET")
    (agent-q-test-until (not (agent-q-test-image-debuggers)))
    (agent-q-test-until (equal '(":LEFT") (agent-q-test-image-values connection "aq-way")))
    (set-window-buffer nil chat)
    (set-buffer chat)
    (agent-q-test-tools-ask "/eval_form (error \"aq stop\") on_error=park")
    (agent-q-test-find "▸ eval_form park")
    (agent-q-test-press "TAB")
    (re-search-forward "debugger d")
    (should (equal 'error (car (get-text-property (point) 'agent-q-live))))
    (agent-q-test-press "RET")
    (with-current-buffer (car (agent-q-test-until (agent-q-test-image-debuggers)))
      (should (string-match-p "aq stop" (buffer-string))))
    (should-not (agent-q-image-park-list))
    (agent-q-test-tools-quit-debuggers client)))

(agent-q-test-tools-on-each names-failed-evaluations-keep-their-stacks ()
  "For the user's debugger, until it is opened, or what it holds is needed."
  (cl-flet ((kept (form)
              (agent-q-test-tools-ask (concat "/eval_form " form))
              (and agent-q-image--kept
                   (agent-q-connection-call-arguments (car agent-q-image--kept))))
            (count () (length agent-q-image--kept)))
    (save-window-excursion
      (switch-to-buffer chat)
      (agent-q-test-image-eval connection "(progn (defparameter aq-clean nil) (defvar aq-lock (sb-thread:make-mutex)) (defun aq-fail (n) (let ((m (* 2 n))) (restart-case (error \"aq ~D\" m) (aq-skip () m)))))")
      (kept "(aq-fail 4)")
      (should (= 1 (count)))
      (should (string-match-p "✗ SIMPLE-ERROR: aq 8 [0-9.]+ m?s \\[Debug\\]" (agent-q-test-log)))
      ;; What it says is what it says otherwise.
      (should-not (string-match-p "parked\\|kept" (agent-q-test-tools-whole-answer)))
      ;; More evaluations leave it.
      (agent-q-test-tools-ask "/eval_form (list 1)")
      (should (= 1 (count)))
      (agent-q-test-find "[Debug]")
      (let ((height (frame-height)))
        (set-frame-height nil 24)
        (unwind-protect
            (progn
              (agent-q-test-press "RET")
              (with-current-buffer (car (agent-q-test-until (agent-q-test-image-debuggers)))
                (should (string-match-p "aq 8" (buffer-string)))
                ;; All from the condition to some frames is in its window.
                (goto-char (point-min))
                (search-forward "(AQ-FAIL 4)")
                (let ((window (get-buffer-window)) (lines (+ 2 (line-number-at-pos))))
                  (agent-q-test-until (<= lines (window-body-height window)))
                  (should (= (window-start window) (point-min))))))
          (set-frame-height nil height)))
      (agent-q-test-tools-quit-debuggers client)
      (agent-q-test-until (= 0 (count)))
      (set-buffer chat)
      (agent-q-test-until (not (agent-q-test-shows "[Debug]")))
      ;; A lock that is held isn't kept, and nobody waits for it.
      (kept "(sb-thread:with-mutex (aq-lock) (aq-fail 1))")
      (should (= 0 (count)))
      (should (string-search "not kept for the user's debugger: its thread holds a lock"
                             (agent-q-test-tools-whole-answer)))
      (should (string-match-p "=> 1" (agent-q-test-tools-ask "/eval_form (sb-thread:with-mutex (aq-lock) 1)")))
      ;; Nor one that somebody waits for, in a way that isn't seen.
      (kept "(progn (sb-thread:grab-mutex aq-lock) (aq-fail 2))")
      (should (= 1 (count)))
      (agent-q-test-tools-ask "/eval_form (sb-thread:grab-mutex aq-lock :timeout 20)")
      (agent-q-test-until (= 0 (count)))
      ;; Clean-up forms run before more code does.
      (kept "(unwind-protect (aq-fail 3) (setf aq-clean t))")
      (should (= 1 (count)))
      (should (string-match-p "=> T" (agent-q-test-tools-ask "/eval_form aq-clean")))
      (agent-q-test-until (= 0 (count)))
      ;; No more than a few are kept.
      (dotimes (number 5) (kept (format "(aq-fail %d)" number)))
      (agent-q-test-until (= agent-q-image--most-kept (count)))
      (let ((agent-q-image-keep-minutes nil))
        (kept "(aq-fail 6)")
        (should (= agent-q-image--most-kept (count)))))
    (agent-q-image-release-owned chat)
    (agent-q-test-until (= 0 (count)))))

(agent-q-test-tools-on-each names-failed-evaluations-go-on-with-what-is-defined-since ()
  "Reading the form made the name: it is gone until the debugger opens, and then the same."
  (cl-flet ((made () (agent-q-test-image-values connection "(not (null (find-symbol \"AQ-LATER\" :cl-user)))")))
    (save-window-excursion
      (switch-to-buffer chat)
      (agent-q-test-tools-ask "/eval_form (defparameter *aq-made* (aq-later 4))")
      (should (string-match-p "The function COMMON-LISP-USER::AQ-LATER is undefined"
                              (agent-q-test-tools-whole-answer)))
      (should (equal '("NIL") (made)))
      (agent-q-test-find "[Debug]")
      (agent-q-test-press "RET")
      (let ((debugger (car (agent-q-test-until (agent-q-test-image-debuggers)))))
        (should (equal '("T") (made)))
        (agent-q-test-image-directly connection "(defun aq-later (n) (* 3 n))")
        (with-current-buffer debugger
          (agent-q-test-tools-client-call (if (eq client 'sly) 'sly-db 'sldb) "invoke-restart-0")))
      (agent-q-test-until (not (agent-q-test-image-debuggers)))
      (agent-q-test-until (equal '("12") (agent-q-test-image-values connection "(ignore-errors (symbol-value (find-symbol \"*AQ-MADE*\" :cl-user)))"))))))

(ert-deftest agent-q-names-of-places-lead-to-files ()
  (agent-q-test-with-chat
    (let* ((file (make-temp-file (expand-file-name "place" agent-q-test-directory) nil ".lisp" "one\ntwo\nthree\n"))
           (agent-q-session-root agent-q-test-directory)
           (short (file-name-nondirectory file)))
      (save-window-excursion
        (agent-q-test-event :call-proposed :call 1 :tool "grep_project" :arguments "{\"pattern\":\"t\"}")
        (agent-q-test-event :call-finished :call 1 :outcome :succeeded :milliseconds 9
                            :content (format "%s:2:two\n  0: (F)  [%s:3]\ngone.lisp:1:x\n" short file))
        (agent-q-names-test--answer (format "See %s:3:2, but neither gone.lisp:4 nor example.org:80.\n" short))
        (should-not (agent-q-names-test--thing "gone.lisp:4"))
        (should-not (agent-q-names-test--thing "example.org:80"))
        (should (equal (agent-q-names-test--thing (concat short ":3:2")) (list 'place short 3 2)))
        (agent-q-test-press "RET")
        (should (equal (buffer-file-name (window-buffer)) file))
        (with-current-buffer (window-buffer)
          (should (equal (list (line-number-at-pos) (current-column)) '(3 1))))
        (switch-to-buffer (agent-q-session-user-last-buffer #'ignore))
        (set-window-buffer nil (car (agent-q-session-chats)))
        (set-buffer (window-buffer))
        (agent-q-test-find "▸ grep_project")
        (agent-q-test-press "TAB")
        (should (equal (agent-q-names-test--thing (concat file ":3")) (list 'place file 3 nil)))
        (agent-q-names-test--thing "gone.lisp:1")
        (dolist (gone '("gone.lisp:1" "gone.lisp:4"))
          (agent-q-names-test--thing gone)
          (let ((place (point)))
            (should (equal (cadr (should-error (agent-q-test-press "RET") :type 'user-error))
                           "There is no file gone.lisp"))
            (should (= place (point)))))))))

(ert-deftest agent-q-names-in-a-pending-request-leave-its-keys ()
  "RET there is what the request says."
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "eval_form"
                        :arguments "{\"form\":\"(inspect $v1) ; a.lisp:3\"}")
    (agent-q-test-event :approval :call 1 :tool "eval_form" :level "dangerous"
                        :arguments "{\"form\":\"(inspect $v1) ; a.lisp:3\"}")
    (let ((keys (lambda () (list (key-binding (kbd "RET")) (key-binding "y") (key-binding "n")))) own)
      (agent-q-test-find "(inspect")
      (setq own (funcall keys))
      (should (nth 1 own))
      (dolist (text '("v1)" "a.lisp:3"))
        (should-not (agent-q-names-test--thing text))
        (should (equal own (funcall keys)))))))

(ert-deftest agent-q-names-long-lines-are-searched-at-once ()
  "Text without a blank takes no time that grows with its square."
  (let ((one (make-string 20000 ?a)) (two (make-string 200000 ?a)))
    (cl-flet ((seconds (text) (car (benchmark-run 5 (agent-q-live-mark (copy-sequence text))))))
      (seconds one)
      (should (< (seconds two) (* 60 (max 0.0005 (seconds one))))))))

(provide 'agent-q-names-test)
;;; agent-q-names-test.el ends here
