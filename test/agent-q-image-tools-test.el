;;; agent-q-image-tools-test.el --- Tools that a program offers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A program in a real image defines tools; they are in the registry, obey the
;; pipeline, change when they are defined anew, and go with the connection.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defconst agent-q-image-tools-test--system
  (expand-file-name "lisp/asdf/agent-q-image.asd" agent-q-test-root)
  "The system that programs name.")

(defun agent-q-image-tools-test--define (connection form)
  "Evaluate FORM, which defines tools, over CONNECTION."
  (agent-q-test-image-values connection form))

(defun agent-q-image-tools-test--described (name)
  "Return what the core knows of the tool NAME."
  (cl-find name (agent-q-core-tools)
           :key (lambda (tool) (plist-get tool :name)) :test #'equal))

(defconst agent-q-image-tools-test--greet
  "(agent-q-image:define-tool \"greet\" \"Greet somebody.\"
     '((:name \"who\" :type :string :description \"Who\")
       (:name \"times\" :type :integer :default 1 :minimum 1))
     :required '(\"who\") :safety-level :cautious :categories '(:app)
     :handler (lambda (args)
                (if (string= (gethash \"who\" args) \"nobody\")
                    (values nil \"There is nobody.\")
                    (format nil \"~{~a~^ ~}\" (loop repeat (gethash \"times\" args)
                                                  collect (gethash \"who\" args))))))"
  "A tool as programs define it.")

(defun agent-q-image-tools-test--unfold (call)
  "Unfold the last CALL, text, of the current chat."
  (goto-char (point-max))
  (unless (re-search-backward (concat "^\\S-" (regexp-quote (concat " " call))) nil t)
    (ert-fail (agent-q-test-log)))
  (agent-q-test-press "TAB"))

(defun agent-q-image-tools-test--answer (line)
  "Return the answer to the console LINE."
  (agent-q-test-ask line)
  (let ((calls nil))
    (maphash (lambda (key call) (push (cons key call) calls)) agent-q-call-table)
    (agent-q-call-content (cdar (cl-sort calls #'> :key #'car)))))

(agent-q-test-image-on-each tools-of-a-program-are-registered-and-run ()
  "They have their origin and level, and take and give values."
  (agent-q-test-with-chat
    (agent-q-chat-set-connection connection)
    (agent-q-image-tools-test--define connection agent-q-image-tools-test--greet)
    (agent-q-test-until (agent-q-image-tools-test--described "greet"))
    (let ((tool (agent-q-image-tools-test--described "greet")))
      ;; With its client, if another's image has that name too.
      (should (string-match-p (format "\\`image %s\\( through SL\\(IME\\|Y\\)\\)?\\'"
                                      (regexp-quote (agent-q-connection-name connection)))
                              (plist-get tool :origin)))
      (should (equal "cautious" (plist-get tool :level)))
      (should (equal '("app") (plist-get tool :categories))))
    (agent-q-test-ask "/greet who=Ann")
    (agent-q-image-tools-test--unfold "greet")
    (should (string-match-p "^result:\n.*Ann" (agent-q-test-log)))
    (agent-q-test-ask "/greet nobody")
    (agent-q-image-tools-test--unfold "greet")
    (should (agent-q-test-shows "There is nobody."))
    ;; The pipeline checks the arguments before the program sees them.
    (agent-q-test-ask "/greet who=Ann times=0")
    (should-not (agent-q-call-waiting))
    ;; Defined anew, another one is in its place.
    (agent-q-image-tools-test--define
     connection "(agent-q-image:define-tool \"greet\" \"Greet.\" '() :handler (lambda (args) args (error \"too ~a\" :loud)))")
    (agent-q-test-until (equal "dangerous" (plist-get (agent-q-image-tools-test--described "greet")
                                                      :level)))
    (agent-q-test-send "/greet")
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    (agent-q-image-tools-test--unfold "greet")
    (should (agent-q-test-shows "SIMPLE-ERROR: too LOUD"))
    (agent-q-image-tools-test--define connection "(agent-q-image:remove-tool \"greet\")")
    (agent-q-test-until (not (agent-q-image-tools-test--described "greet")))))

(agent-q-test-image-on-each tools-of-a-program-end-in-sentences ()
  "One that only prints has that as its result; one that does not end is told in words."
  (agent-q-test-with-chat
    (agent-q-chat-set-connection connection)
    (agent-q-image-tools-test--define
     connection "(agent-q-image:define-tool \"spin\" \"Spin.\" '() :safety-level :safe
                   :handler (lambda (args) args (princ \"begun\") (loop)))
                 (agent-q-image:define-tool \"says\" \"Say.\" '() :safety-level :safe
                   :handler (lambda (args) args (format t \"said~%\") nil))")
    (agent-q-test-until (agent-q-image-tools-test--described "says"))
    (should (equal "said" (agent-q-image-tools-test--answer "/says")))
    ;; What is defined beside it does not replace it under those who use it.
    (let ((says (agent-q-get-tool "says")))
      (agent-q-image-tools-test--define
       connection "(agent-q-image:define-tool \"more\" \"More.\" '() :safety-level :safe :handler #'list)")
      (agent-q-test-until (agent-q-image-tools-test--described "more"))
      (should (eq says (agent-q-get-tool "says")))
      (agent-q-image-tools-test--define connection "(agent-q-image:remove-tool \"more\")")
      (agent-q-test-until (not (agent-q-image-tools-test--described "more"))))
    (let ((agent-q-eval-timeout 1))
      (should (equal "Tool error: it was stopped after 1 s, the time of `agent-q-eval-timeout'.\nbegun"
                     (agent-q-image-tools-test--answer "/spin"))))
    (agent-q-image-tools-test--define
     connection "(agent-q-image:remove-tool \"spin\") (agent-q-image:remove-tool \"says\")")
    (agent-q-test-until (not (agent-q-image-tools-test--described "says")))
    (agent-q-test-until (zerop (agent-q-connection-pending)))))

(agent-q-test-image-on-each tools-of-a-program-take-no-name-of-ours ()
  "A program can't put a tool in the place of a built-in one."
  (agent-q-test-with-chat
    (agent-q-chat-set-connection connection)
    (agent-q-image-tools-test--define
     connection "(agent-q-image:define-tool \"describe_symbol\" \"Mine.\" '() :safety-level :safe :handler #'list)
                 (agent-q-image:define-tool \"afterwards\" \"Mark.\" '() :safety-level :safe :handler #'list)")
    (agent-q-test-until (agent-q-image-tools-test--described "afterwards"))
    (should (equal "built-in" (plist-get (agent-q-image-tools-test--described "describe_symbol")
                                         :origin)))
    (agent-q-image-tools-test--define
     connection "(agent-q-image:remove-tool \"describe_symbol\") (agent-q-image:remove-tool \"afterwards\")")
    (agent-q-test-until (not (agent-q-image-tools-test--described "afterwards")))
    ;; It may be asked once more for the second of the two removals.
    (agent-q-test-until (zerop (agent-q-connection-pending)))))

(agent-q-test-image-on-each a-tool-that-breaks-a-rule-is-refused-in-the-program ()
  "DEFINE-TOOL says what is wrong where the program is."
  (dolist (form '("(agent-q-image:define-tool \"Greet\" \"x\" '() :handler #'list)"
                  "(agent-q-image:define-tool \"greet\" \" \" '() :handler #'list)"
                  "(agent-q-image:define-tool \"greet\" \"x\" '((:name \"a\")) :handler #'list)"
                  "(agent-q-image:define-tool \"greet\" \"x\" '() :required '(\"a\") :handler #'list)"
                  "(agent-q-image:define-tool \"greet\" \"x\" '() :safety-level :odd :handler #'list)"
                  "(agent-q-image:define-tool \"greet\" \"x\" '())"))
    (agent-q-test-image-value connection "list-tools")
    (should (eq :error (plist-get (agent-q-test-image-eval connection form) :outcome)))))

(ert-deftest agent-q-image-tools-a-program-needs-no-emacs ()
  "The system loads in a bare Lisp, and defining a tool works there."
  (skip-unless (executable-find "sbcl"))
  (with-temp-buffer
    (should (zerop
             (call-process
              "sbcl" nil t nil "--noinform" "--non-interactive" "--no-userinit" "--no-sysinit"
              "--eval" "(require :asdf)"
              "--eval" (format "(asdf:initialize-output-translations '(:output-translations (t (%S :**/ :*.*.*)) :ignore-inherited-configuration))"
                               (file-name-as-directory agent-q-test-directory))
              "--eval" (format "(asdf:load-asd %S)" agent-q-image-tools-test--system)
              "--eval" "(asdf:load-system \"agent-q-image\")"
              "--eval" "(agent-q-image:define-tool \"greet\" \"Greet.\" '() :handler #'list)"
              "--eval" "(print (length agent-q-image::*tools*))")))
    (goto-char (point-max))
    (should (equal "1" (string-trim (buffer-substring (line-beginning-position) (point-max)))))
    (should-not (string-match-p "WARNING" (buffer-string)))))

(ert-deftest agent-q-image-tools-go-with-the-connection ()
  "When an image is gone, so are its tools."
  :tags '(:image)
  (let ((connection (agent-q-test-image-connection 'slime)))
    (skip-unless connection)
    (agent-q-test-with-chat
      (agent-q-chat-set-connection connection)
      (agent-q-image-tools-test--define connection agent-q-image-tools-test--greet)
      (agent-q-test-until (agent-q-image-tools-test--described "greet"))
      (delete-process (agent-q-test-image-process connection))
      (agent-q-test-until (not (agent-q-image-tools-test--described "greet"))))))

(provide 'agent-q-image-tools-test)
;;; agent-q-image-tools-test.el ends here
