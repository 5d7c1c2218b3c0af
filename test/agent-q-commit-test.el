;;; agent-q-commit-test.el --- Tests of messages for commits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The message is inserted at point, from what is committed, without private files.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-ask)
(require 'log-edit)

(defmacro agent-q-commit-test--in-repository (&rest body)
  "Run BODY in a new repository, where something is staged and more has changed."
  (declare (indent 0) (debug t))
  `(let* ((default-directory (file-name-as-directory
                              (make-temp-file (expand-file-name "git" agent-q-test-directory) t)))
          (inhibit-message t))
     (agent-q-commit-test--git "init" "-q")
     (write-region "(defun a ())\n" nil "a.lisp" nil 'silent)
     (write-region "TOKEN=1\n" nil ".env" nil 'silent)
     (agent-q-commit-test--git "add" "-Af")
     (agent-q-commit-test--git "-c" "user.name=x" "-c" "user.email=x@y.z"
                               "commit" "-qm" "Begin with a function")
     (write-region "(defun a (staged))\n" nil "a.lisp" nil 'silent)
     (write-region "TOKEN=2\n" nil ".env" nil 'silent)
     (agent-q-commit-test--git "add" "-Af")
     (write-region "(defun a (unstaged))\n" nil "a.lisp" nil 'silent)
     (write-region "more\n" nil "b.txt" nil 'silent)
     ,@body))

(defun agent-q-commit-test--git (&rest arguments)
  "Run Git with ARGUMENTS."
  (should (zerop (apply #'call-process "git" nil nil nil arguments))))

(defun agent-q-commit-test--request ()
  "Return the text of the last request that the model got."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (buffer-string)))

(ert-deftest agent-q-commit-message-of-what-is-staged ()
  (skip-unless (executable-find "git"))
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"```\\nTake an \"},{\"text\":\"argument\\n\\nIt was missing.\\n```\"}]}]}"
    (agent-q-commit-test--in-repository
      (let ((chats (agent-q-session-buffers)))
        (write-region "\n# Please enter the message\n" nil ".git/COMMIT_EDITMSG" nil 'silent)
        (with-current-buffer (find-file-noselect ".git/COMMIT_EDITMSG")
          (goto-char (point-min))
          (agent-q-commit-message)
          (agent-q-test-until (and (string-search "missing." (buffer-string))
                                   (not (local-variable-p 'agent-q-ask--commit-job))))
          (should (equal "Take an argument\n\nIt was missing.\n# Please enter the message\n"
                         (buffer-string)))
          (let ((request (agent-q-commit-test--request)))
            (should (string-search "+(defun a (staged))" request))
            (should (string-search "Begin with a function" request))
            (should-not (string-search "unstaged" request))
            (should-not (string-search "TOKEN" request))
            (should-not (string-search "\"tools\"" request)))
          (should (= (point) (point-min)))
          ;; One undo takes it away.
          (undo-boundary)
          (primitive-undo 1 (progn (while (null (car buffer-undo-list)) (pop buffer-undo-list))
                                   buffer-undo-list))
          (should (equal "\n# Please enter the message\n" (buffer-string)))
          (set-buffer-modified-p nil)
          (kill-buffer))
        (should (equal chats (agent-q-session-buffers)))))))

(ert-deftest agent-q-commit-message-in-the-log-of-vc-is-about-its-files ()
  (skip-unless (executable-find "git"))
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"Change a\"}]}]}"
    (agent-q-commit-test--in-repository
      (write-region "(defun quagga ())\n" nil "c.lisp" nil 'silent)
      (agent-q-commit-test--git "add" "c.lisp")
      (with-temp-buffer
        (log-edit-mode)
        (setq-local log-edit-initial-files nil
                    log-edit-listfun (lambda () (list (expand-file-name "a.lisp"))))
        (insert "Summary: \n")
        (goto-char (1- (point-max)))
        (agent-q-commit-message)
        (agent-q-test-until (and (string-search "Change a" (buffer-string))
                                 (not (local-variable-p 'agent-q-ask--commit-job))))
        (should (equal "Summary: Change a\n" (buffer-string)))
        (let ((request (agent-q-commit-test--request)))
          (should (string-search "+(defun a (unstaged))" request))
          (should-not (string-search "quagga" request)))))))

(ert-deftest agent-q-commit-message-says-what-is-missing-and-can-be-given-up ()
  (skip-unless (executable-find "git"))
  (with-temp-buffer
    (should-error (agent-q-commit-message) :type 'user-error))
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"Half a message\"},{\"stall\":true}]}]}"
    (agent-q-commit-test--in-repository
      (write-region "" nil ".git/COMMIT_EDITMSG" nil 'silent)
      (with-current-buffer (find-file-noselect ".git/COMMIT_EDITMSG")
        (agent-q-commit-message)
        ;; It is shown while it comes.
        (agent-q-test-until (equal "Half a message" (buffer-string)))
        (agent-q-commit-message)
        (should-not agent-q-ask--commit-job)
        (should (equal "" (buffer-string)))
        (agent-q-commit-test--git "reset" "-q")
        (let ((said nil))
          (cl-letf (((symbol-function 'message)
                     (lambda (format &rest values) (push (apply #'format format values) said))))
            (agent-q-commit-message)
            (agent-q-test-until (member "Nothing is staged" said))))
        (kill-buffer)))))

(ert-deftest agent-q-commit-message-leaves-what-is-typed-meanwhile ()
  (skip-unless (executable-find "git"))
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"Half a message\"},{\"stall\":true}]}]}"
    (agent-q-commit-test--in-repository
      (write-region "" nil ".git/COMMIT_EDITMSG" nil 'silent)
      (with-current-buffer (find-file-noselect ".git/COMMIT_EDITMSG")
        (agent-q-commit-message)
        (agent-q-test-until (equal "Half a message" (buffer-string)))
        (goto-char (+ (point-min) 4))
        (insert " of")
        (agent-q-commit-message)
        (should (equal "Half of a message" (buffer-string)))
        (set-buffer-modified-p nil)
        (kill-buffer)))))

(ert-deftest agent-q-commit-no-fence-is-shown-while-a-message-comes ()
  (let ((text "```text\nAdd `f`\n\nIt was\nmissing.\n```"))
    (should (equal "Add `f`\n\nIt was\nmissing." (agent-q-ask--commit-clean text)))
    (dotimes (length (length text))
      (should (string-prefix-p (agent-q-ask--commit-begun (substring text 0 length))
                               (agent-q-ask--commit-clean text))))))

(provide 'agent-q-commit-test)
;;; agent-q-commit-test.el ends here
